"""Certificates in rows and files: all of them but the proof, which has a file of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorplan.core import Certificate, Episode
from tensorplan.core.jsonable import plain


def bracket(certificate: Certificate | None) -> dict[str, Any]:
    """The fields of a row that a certificate fills; none where there is none."""
    if certificate is None:
        return {}
    return {
        "upper": certificate.upper,
        "lower": certificate.lower,
        "certificate": certificate.status,
        "failure": certificate.failure,
        "lower_failure": certificate.lower_failure,
        "assumes": certificate.assumes,
        "explained": certificate.explained,
        "warnings": certificate.warnings,
    }


def traces(episodes: Iterable[Episode]) -> list[Any]:
    """The traces of episodes as plain data, each with the certificate that it led to."""
    return [
        None if episode.trace is None else {**plain(episode.trace), "certificate": plain(episode.certificate)}
        for episode in episodes
    ]
