"""Student's t for small samples."""

from __future__ import annotations

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13)


def t_95(degrees_of_freedom: float) -> float:
    """Two-sided 95 %, between whole numbers interpolated; below 1 that of 1, from 15 degrees of
    freedom on that of 15, which is more than is needed.

    >>> t_95(3)
    3.18
    >>> round(t_95(3.5), 2)
    2.98
    """
    clamped = min(max(1.0, degrees_of_freedom), float(len(_T_95)))
    below = int(clamped)
    after = _T_95[min(below, len(_T_95) - 1)]
    return _T_95[below - 1] + (clamped - below) * (after - _T_95[below - 1])
