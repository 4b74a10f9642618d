"""Find out whether files can be created in a folder, and leave none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable_folder(folder: Path) -> None:
    """Raise OSError unless `folder`, or the first of its parents that exists, takes new files."""
    existing = next(
        (one for one in (folder, *folder.absolute().parents) if os.path.lexists(one)), folder
    )
    with tempfile.TemporaryFile(dir=existing):  # has no name, or loses it at once
        pass
