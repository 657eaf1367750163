"""Certificates on disk: exact to the last bit, and refused when they are something else."""

import dataclasses
import json

import numpy as np
import pytest
from certificates import PLANE, plane, refusal
from random_certificates import random_program, random_solution

from tensorplan.optimism.program import BoundTree, CertificateError
from tensorplan.optimism.verify import verify


def test_a_certificate_survives_a_file_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(2)
    for number in range(20):
        program = random_program(rng)
        answer = random_solution(rng, program, False)
        file = tmp_path / f"{number}.json"
        answer.certificate.save(file)
        loaded = BoundTree.load(file)
        for field in dataclasses.fields(BoundTree):
            before, after = getattr(answer.certificate, field.name), getattr(loaded, field.name)
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)
        again = dataclasses.replace(answer, certificate=loaded)
        assert verify(program, again) == verify(program, answer)


def save(file, change):
    plane().certificate.save(file)
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("format"),
        lambda data: data.update(format="tensorplan certificate 2"),
        lambda data: data.pop("value"),
        lambda data: data.update(value=None),
        lambda data: data["value"].append("zebra"),
        lambda data: data["index"].append(2**70),
        lambda data: data["index"].append([1, 2]),
        lambda data: data["parent"].append(None),
        lambda data: data["low"].append({}),
    ],
)
def test_a_corrupted_or_foreign_file_is_refused(tmp_path, change):
    with pytest.raises(CertificateError) as error:
        BoundTree.load(save(tmp_path / "proof.json", change))
    assert "proof.json" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b"null", b"a,b\n1,2\n"])
def test_a_file_that_is_something_else_is_refused(tmp_path, content):
    file = tmp_path / "proof.json"
    file.write_bytes(content)
    with pytest.raises(CertificateError, match=r"proof\.json"):
        BoundTree.load(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(value=data["value"][:-1]),
        lambda data: data.update(parent=data["parent"][:-1]),
        lambda data: data.update(value=["0x1p-1", *data["value"][1:]]),
        lambda data: data.update(low=["nan"] * len(data["low"])),
        lambda data: data.update(high=["nan"] * len(data["high"])),
        lambda data: data.update(high=["inf"] * len(data["high"])),
        lambda data: data.update(low=data["high"], high=data["low"]),
    ],
)
def test_a_readable_file_with_wrong_numbers_is_refused_by_verify(tmp_path, change):
    loaded = BoundTree.load(save(tmp_path / "proof.json", change))
    refusal(PLANE, dataclasses.replace(plane(), certificate=loaded))
