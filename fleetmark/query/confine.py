"""What a worker gives up for good before it sees other people's SQL.

- Everywhere: files it may write (none), core files, address space.
- Linux 5.13 and newer: Landlock. Of the file system only the lake's data folder can be read, nothing
  can be written, cut short or removed; from 6.7 on no TCP connection can be made.
- Started by root: the data folder becomes `/` (where chroot is permitted) and the identity `nobody`.

Without Landlock and root, DuckDB's own locks and the parse tree stand alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

NOBODY = 65534

# Numbers of linux/landlock.h and of the system calls, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_QUESTION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
# File rights that each version of the interface knows; the rest of the rights came with others.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
_TCP_RIGHTS = 0b11
_TCP_SINCE = 4
# DuckDB 1.5.5 looks here for limits when it starts, and ends the process where it may not.
_CGROUP = (
    ("/proc/self/cgroup", _READ_FILE),
    ("/sys/fs/cgroup", _READ_FILE),
)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine(root: str, address_bytes: int) -> bool:
    """Give up rights. True when `root` has become `/`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes))
    jailed = False
    if os.geteuid() == 0:
        jailed = _change_root(root)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if sys.platform == "linux":
        _landlock("/" if jailed else root)
    return jailed


def _change_root(root: str) -> bool:
    try:
        os.chroot(root)
    except PermissionError:  # a container without CAP_SYS_CHROOT: the other limits remain
        return False
    os.chdir("/")
    return True


def _landlock(root: str) -> None:
    """Leave this thread, and those it starts, nothing but reading below `root`."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_QUESTION)
    if version < 1:  # an older kernel, or switched off
        return
    rules = _Ruleset(_FILE_RIGHTS[min(version, 3)], _TCP_RIGHTS)
    # Older kernels know the first field only, and refuse a longer structure that is not zero.
    size = ctypes.sizeof(rules) if version >= _TCP_SINCE else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    steps = [ruleset]
    for path, rights in ((root, _READ_FILE | _READ_FOLDER), *_CGROUP):
        if Path(path).exists():
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            beneath = _PathBeneath(rights, place)
            steps.append(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(beneath), 0))
            os.close(place)
    steps.append(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    steps.append(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    if min(steps) < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused the worker's rules")
    os.close(ruleset)
