"""The tests of pages can fail: what they compare, and what they forgive."""

import sys
from pathlib import Path

import pytest
from blocks import Page, same

TOOLS = Path(__file__).parent.parent.parent / "docs" / "tools"


def outputs(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return Page(path).run(tmp_path)


def fenced(language, *lines):
    return "\n".join([f"```{language}", *lines, "```", "", ""])


@pytest.mark.parametrize(("said", "agrees"), [("3", True), ("4", False), ("...", True)])
def test_what_a_block_prints_is_what_follows_it(tmp_path, said, agrees):
    page = fenced("python", "x = 1 + 2") + fenced("python", "print(x)") + fenced("text", said)
    assert [output.agrees for output in outputs(tmp_path, page)] == [agrees]


def test_comments_may_say_it_as_well(tmp_path):
    assert [output.agrees for output in outputs(tmp_path, fenced("python", "print(2)  # 2"))] == [True]
    assert [output.agrees for output in outputs(tmp_path, fenced("python", "print(2)  # 3"))] == [False]


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (fenced("python", "print(1)"), "prints what the page does not show"),
        (fenced("console", "$ rm x"), "only tensorplan runs here"),
        (fenced("console", "hello", "$ tensorplan list"), "starts with a command"),
        (fenced("console", "$ tensorplan plan nowhere/8"), "exits with 2"),
        (fenced("sh", "curl x"), "not for the shell"),
    ],
)
def test_pages_that_cannot_be_checked_are_refused(tmp_path, block, complaint):
    with pytest.raises(AssertionError, match=complaint):
        outputs(tmp_path, block)


def test_commands_run_and_may_complain(tmp_path):
    page = fenced("console", "$ tensorplan plan hanoi/0", "tensorplan: ... got 0")
    assert [output.agrees for output in outputs(tmp_path, page)] == [True]
    page = fenced("console", "$ tensorplan --version", "tensorplan, version ...", "", "$ tensorplan --version", "no")
    assert [output.agrees for output in outputs(tmp_path, page)] == [False]


def test_titled_blocks_are_files_that_can_be_imported(tmp_path):
    page = fenced('python title="mine.py"', "print('imported')", "x = 3") + fenced("python", "from mine import x")
    with pytest.raises(AssertionError, match="prints what the page does not show: imported"):
        outputs(tmp_path, page)
    assert (tmp_path / "mine.py").exists()
    assert "mine" not in sys.modules


def test_a_page_is_rewritten_where_it_was_wrong(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(fenced("python", "print(1)") + fenced("text", "2") + "behind", encoding="utf-8")
    page = Page(path)
    page.run(tmp_path)
    page.write()
    assert path.read_text(encoding="utf-8") == fenced("python", "print(1)") + fenced("text", "1") + "behind"


def test_what_differs_from_machine_to_machine_is_forgiven_and_nothing_else():
    table = (
        " planner     queries  nodes   secs  ended\n ──────────\n tensorplan  {:>7}    {:>3}  {:>5}    3/3\n\nnodes: {}"
    )
    assert same(table.format(1200, 7, "0.03", 5), table.format(1300, 99, "<0.01", 5))
    for other in [(1200, 7, "0.03", 6), (2000, 7, "0.03", 5), ("-", 7, "0.03", 5)]:
        assert not same(table.format(1200, 7, "0.03", 5), table.format(*other)), other
    assert not same(table.format(12, 7, 1, 5), table.replace("3/3", "2/3").format(12, 7, 1, 5))
    assert same("queries an episode  d\n     1,320 ± 230  5", "queries an episode  d\n      1,400 ± 10  5")
    assert not same("queries an episode  d\n     1,320 ± 230  5", "queries an episode  d\n     1,320 ± 230  6")
    assert same("return 9 with 55 queries", "return 9 with 54 queries")
    assert not same("return 9 with 55 queries", "return 8 with 55 queries")
    assert not same("return 9 with 55 queries", "return 9 with 90 queries")
    assert same("gap 1.07e-07", "gap 2e-10")
    assert not same("gap 1.07e-05", "gap 2e-05")


def test_docstrings_become_markdown(monkeypatch):
    pytest.importorskip("griffe", reason="mkdocstrings is not installed (the extra docs)")
    monkeypatch.syspath_prepend(str(TOOLS))
    from docstrings import markdown

    assert markdown("v*(s) = <φ(s), θ*> and *this* is [1, θ*].", "m") == (
        r"v\*(s) = &lt;φ(s), θ\*> and *this* is \[1, θ\*]."
    )
    assert markdown("``a*b*`` and *  c", "m").startswith("``a*b*``")
    assert markdown("One.\n\n    f(w*) = <c, θ>\n\nTwo*.", "m") == "One.\n\n    f(w*) = <c, θ>\n\nTwo\\*."
    assert 'identifier="tensorplan.core.MDP"' in markdown("A :class:`MDP`.", "tensorplan.core")
    assert markdown(":mod:`~tensorplan.game.bound`", "m").endswith("<code>bound</code></autoref>")
    assert markdown("So:\n\n>>> f(1)\n2", "m") == "So:\n\n```pycon\n>>> f(1)\n2\n```"
