"""What MkDocs calls while it builds: pictures are drawn, and pages to step through are written, by the code itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pictures
from mkdocs.structure.files import File, Files

MARKER = re.compile(r"^<!-- picture: (\w+) -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """The configuration with all pages of the folder ``cases`` in its section of the navigation."""
    cases = sorted(path.name for path in Path(config.docs_dir, "cases").glob("*.md"))
    for section in config.nav:
        if "Cases" in section:
            section["Cases"] = [f"cases/{name}" for name in cases]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The files, and the pages that ``tensorplan trace`` writes."""
    for name, page in pictures.PAGES.items():
        files.append(File.generated(config, name, content=page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with each ``<!-- picture: name -->`` replaced by what :mod:`pictures` draws."""
    return MARKER.sub(lambda marker: pictures.PICTURES[marker[1]](), markdown)
