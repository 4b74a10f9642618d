"""What /proc says of a server on this machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from yarl import URL

from paceline.operations.doctor.observing.local_machine import read_local_cpu
from paceline.operations.doctor.readings.local_cpu import LocalCpu

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
URL_OF_8000 = URL("http://127.0.0.1:8000")


def socket_line(port: int, inode: int, state: str = "0A") -> str:
    return (
        f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 "
        f"    0        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
    )


class FakeProc:
    """A folder like /proc, with a server on port 8000 whose engine is a child of a child."""

    def __init__(self, folder: Path, *mapped: str, state: str = "0A") -> None:
        self.folder = folder
        (folder / "net").mkdir(parents=True)
        (folder / "net" / "tcp").write_text(
            HEADER + socket_line(9, 1) + socket_line(8000, 77, state), encoding="utf-8"
        )
        (folder / "cpuinfo").write_text("flags\t\t: avx2 avx512f\n", encoding="utf-8")
        self.add(10, 1, "sshd: x (y)")
        self.add(20, 1, "vllm", inode=77)
        self.add(21, 20, "VLLM::Engine (Core)")
        self.add(22, 21, "VLLM::Worker", *mapped)
        self.add(30, 10, "other", "/x/vllm/_C_AVX2.abi3.so")

    def add(self, pid: int, parent: int, name: str, *mapped: str, inode: int | None = None) -> None:
        folder = self.folder / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1", encoding="utf-8")
        lines = [
            f"7f00-7f01 r-xp 00000000 08:01 5   {path}\n" for path in ("/lib/libc.so", *mapped)
        ]
        (folder / "maps").write_text("".join(lines), encoding="utf-8")
        (folder / "fd" / "0").symlink_to("/dev/null")
        if inode is not None:
            (folder / "fd" / "3").symlink_to(f"socket:[{inode}]")


def test_the_engine_below_the_listening_process_is_read(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc", "/venv/vllm/_C_AVX512.abi3.so", "/venv/vllm/fs_io_C.abi3.so")
    found = read_local_cpu(URL_OF_8000, proc.folder)
    assert found == LocalCpu(frozenset({"avx2", "avx512f"}), frozenset({"_C_AVX512"}))


@pytest.mark.parametrize(
    "mapped",
    [
        (),  # a tunnel, or a proxy
        ("/venv/vllm/_C.abi3.so", "/venv/torch/lib/libtorch_cuda.so"),
        ("/venv/vllm/_C.abi3.so", "/usr/lib/libcuda.so.570.1"),
        ("/venv/other/_C.abi3.so",),
    ],
)
def test_without_an_engine_on_a_cpu_nothing_is_known(
    tmp_path: Path, mapped: tuple[str, ...]
) -> None:
    assert read_local_cpu(URL_OF_8000, FakeProc(tmp_path / "proc", *mapped).folder) is None


def test_only_the_process_that_listens_counts(tmp_path: Path) -> None:
    """Here the connection to port 8000 is an established one."""
    proc = FakeProc(tmp_path / "proc", "/venv/vllm/_C.abi3.so", state="01")
    assert read_local_cpu(URL_OF_8000, proc.folder) is None
    assert read_local_cpu(URL("http://127.0.0.1:8001"), proc.folder) is None


@pytest.mark.parametrize("host", ["10.0.0.5", "engines.example", "127.0.0.1.example"])
def test_a_server_on_another_machine_is_not_looked_for(tmp_path: Path, host: str) -> None:
    proc = FakeProc(tmp_path / "proc", "/venv/vllm/_C.abi3.so")
    assert read_local_cpu(URL(f"http://{host}:8000"), proc.folder) is None
    assert read_local_cpu(URL("http://localhost:8000"), proc.folder) is not None


def test_a_system_without_proc_shows_nothing(tmp_path: Path) -> None:
    assert read_local_cpu(URL_OF_8000, tmp_path / "missing") is None


_SERVER = """
import mmap, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
child = "import mmap, sys; f = open(sys.argv[1], 'rb')"
child += "; m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
child += "; print('mapped', flush=True); sys.stdin.read()"
engine = subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
engine.stdout.readline()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def serving(library: Path) -> Iterator[int]:
    """The port of a process whose child has mapped a library."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield int(process.stdout.readline())
        process.stdin.close()  # both end


def test_the_real_proc_is_read(tmp_path: Path) -> None:
    library = tmp_path / "vllm" / "_C_AVX2.abi3.so"
    library.parent.mkdir()
    library.write_bytes(b"x" * 4096)
    with serving(library) as port:
        found = read_local_cpu(URL(f"http://127.0.0.1:{port}"))
    assert found is not None
    assert found.libraries == {"_C_AVX2"}
    assert found.flags
