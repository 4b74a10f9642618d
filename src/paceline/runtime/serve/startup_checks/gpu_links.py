"""Read how GPUs are connected from the output of `nvidia-smi topo -m`.

The matrix has a row and a column for each GPU, then columns for network adapters and affinities,
which depend on the driver's version. A terminal's escape sequences may surround the head line.
"""

from __future__ import annotations

import re

COMMAND = ("nvidia-smi", "topo", "-m")

LINK_TEXTS = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the PCIe host bridge of a CPU",
    "NODE": "PCIe host bridges of one NUMA node",
    "SYS": "PCIe and the link between CPU sockets",
    "SOC": "PCIe and the link between CPU sockets",
}
"""What the matrix says of two GPUs without NVLink."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)")


def is_nvlink(link: str) -> bool:
    """Whether it is a number of bonded NVLinks.

    >>> is_nvlink("NV18"), is_nvlink("NODE")
    (True, False)
    """
    return link.startswith("NV") and link[2:].isdigit()


def parse_links(matrix: str) -> dict[tuple[int, int], str] | None:
    """Return the link of each pair of GPUs, in both orders, by their indices in the matrix.

    None if the text is no such matrix. Entries that are no link are left out.
    """
    columns: list[int] = []
    links: dict[tuple[int, int], str] = {}
    for line in _ESCAPE.sub("", matrix).splitlines():
        words = line.split()
        row = _GPU.fullmatch(words[0]) if words else None
        if row is None:
            continue
        if not columns:
            if "X" not in words:  # the head line; each row has one X
                columns = [int(found[1]) for word in words if (found := _GPU.fullmatch(word))]
            continue
        for column, cell in zip(columns, words[1:], strict=False):
            if is_nvlink(cell) or cell in LINK_TEXTS:
                links[int(row[1]), column] = cell
    return links if columns else None
