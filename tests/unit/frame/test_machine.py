from __future__ import annotations

import resource
from pathlib import Path

import pytest

from watcher.host.machine import memory_mb, raise_descriptor_limit

GB = 1024**3


def machine(root: Path, groups: str, limits: dict[str, str]) -> Path:
    files = {"proc/self/cgroup": groups}
    for name, content in (files | {f"sys/fs/cgroup/{name}": content for name, content in limits.items()}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "gigabytes"),
    [
        ("", {}, 8),
        ("0::/\n", {"memory.max": "max\n"}, 8),
        ("0::/\n", {"memory.max": f"{2 * GB}\n"}, 2),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{3 * GB}\n"}, 3),
        ("0::/a/b\n", {"a/b/memory.max": f"{4 * GB}\n", "a/memory.max": f"{5 * GB}\n"}, 4),
        ("4:memory:/docker/1\n0::/\n", {"memory/memory.limit_in_bytes": f"{2 * GB}\n"}, 2),
        ("4:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, 8),
        ("4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": f"{GB}\n"}, 8),
    ],
)
def test_a_containers_limit_counts_when_it_is_lower(tmp_path, groups, limits, gigabytes):
    assert memory_mb(installed=8 * GB, root=machine(tmp_path, groups, limits)) == gigabytes * 1024


def test_a_machine_without_control_groups_has_its_installed_memory(tmp_path):
    assert memory_mb(installed=8 * GB, root=tmp_path) == 8 * 1024


def test_this_machine_has_some_memory():
    assert memory_mb() > 256


def test_as_many_files_may_be_open_as_the_machine_allows():
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
    try:
        allowed = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (allowed, hard)
        assert allowed > 500
        assert raise_descriptor_limit() == allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
