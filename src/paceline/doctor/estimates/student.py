"""Student's t for small samples."""

from __future__ import annotations

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13)


def t_95(degrees_of_freedom: int) -> float:
    """Two-sided 95 %; from 15 degrees of freedom on that of 15, which is more than is needed.

    >>> t_95(3)
    3.18
    """
    return _T_95[min(degrees_of_freedom, len(_T_95)) - 1]
