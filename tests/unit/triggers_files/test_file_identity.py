"""What identifies a version of a local file, by the file system on which its folder lies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import Finding, TriggerContext
from triggers.local_folder import mounts
from triggers.local_folder.mounts import types_at
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
28 27 0:44 / /mnt/a\\040share rw,relatime - cifs //server/share rw
29 27 0:45 / /mnt/nfs rw,relatime - nfs4 server:/export rw
30 27 0:46 / /mnt/over rw,relatime - ext4 /dev/vdb rw
31 30 0:47 / /mnt/over rw,relatime - fuse.sshfs host: rw
32 27 0:48 / /data/in/usb rw,relatime - vfat /dev/sdb1 rw
33 27 0:49 / /data/inner rw,relatime - 9p share rw
"""


@pytest.mark.parametrize(
    ("folder", "types"),
    [
        ("/home/me", ["ext4"]),
        ("/mnt/a share", ["cifs"]),
        ("/mnt/a share/in/deep", ["cifs"]),
        ("/mnt/a shared", ["ext4"]),
        ("/mnt/nfs/in", ["nfs4"]),
        ("/mnt/over", ["fuse.sshfs"]),
        ("/data/in", ["ext4", "vfat"]),
        ("/data/in/usb", ["vfat"]),
    ],
)
def test_the_mount_table_names_the_types_at_a_folder_and_below(folder: str, types: list[str]) -> None:
    assert list(types_at(folder, TABLE)) == types


@pytest.mark.parametrize(
    ("type_", "is_stable"),
    [
        *((each, True) for each in ("ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "nfs", "nfs4")),
        *((each, False) for each in ("cifs", "smb3", "fuse", "fuse.sshfs", "fuseblk", "9p", "vfat", "exfat", "new")),
    ],
)
def test_types_that_keep_inode_numbers(type_: str, *, is_stable: bool) -> None:
    assert (type_ in mounts.STABLE) is is_stable


class Share:
    """A folder that lies where the test says, and its watcher."""

    def __init__(self, folder: Path, mount: Callable[[str], None], **options: Any) -> None:
        self.path, self.mount, self.host = folder / "in", mount, DictHost()
        self.options = {"path": str(self.path), "min_age": "0s", "start": "all", **options}
        self.path.mkdir()

    def trigger(self) -> FileNewFiles:
        return FileNewFiles(FileNewFilesOptions.model_validate(self.options), None, TriggerContext(watcher="w"))

    def write(self, *names: str) -> None:
        for name in names:
            (self.path / name).write_text(name)

    def other_inodes(self) -> None:
        """Give each file another inode number, as a share that is mounted again may do, with all its times but the ctime."""
        copy = self.path.with_name("copy")
        shutil.copytree(self.path, copy, copy_function=shutil.copy2)
        shutil.rmtree(self.path)
        copy.rename(self.path)

    async def poll(self) -> list[str]:
        before = len(self.host.files)
        await self.host.run(self.trigger())
        return [os.path.basename(file["path"]) for file in self.host.files[before:]]  # noqa: PTH119 - text

    async def findings(self) -> list[Finding]:
        trigger = self.trigger()
        found = [each for each in await trigger.check() if each.check == "identity"]
        async with aclosing(trigger.events(self.host.stored)) as batches:
            async for batch in batches:
                if batch.findings is not None:
                    assert [each for each in batch.findings if each.check == "identity"] == found
                    return found
        raise AssertionError("the trigger ended")


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Let the folders of the test lie on a file system of this type."""
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "TABLE", table)

    def mounted(type_: str) -> None:
        table.write_text(
            f"27 1 0:9 / / rw - ext4 /dev/vda1 rw\n28 27 0:44 / {tmp_path.resolve()} rw - {type_} share rw\n"
        )
        mounts._unstable_type.cache_clear()

    yield mounted
    mounts._unstable_type.cache_clear()


MODES = pytest.mark.parametrize("mode", ["strict", "window"])


@MODES
@pytest.mark.parametrize(
    ("identity", "type_", "repeats"),
    [("auto", "ext4", True), ("auto", "cifs", False), ("path", "ext4", False), ("inode", "cifs", True)],
)
async def test_other_inode_numbers_are_news_only_where_they_count(
    tmp_path: Path, mount: Callable[[str], None], mode: str, identity: str, type_: str, *, repeats: bool
) -> None:
    mount(type_)
    share = Share(tmp_path, mount, identity=identity, mode=mode)
    share.write("a", "b")
    assert await share.poll() == ["a", "b"]
    assert ("inode" in share.host.files[0]) is repeats, "a job on another machine could not compare them"
    share.other_inodes()
    share.write("c")
    assert sorted(await share.poll()) == (["a", "b", "c"] if repeats else ["c"])
    assert await share.poll() == []


@MODES
@pytest.mark.parametrize(("before", "after"), [("ext4", "cifs"), ("cifs", "ext4")])
async def test_another_kind_brings_nothing_again(
    tmp_path: Path, mount: Callable[[str], None], mode: str, before: str, after: str
) -> None:
    mount(before)
    share = Share(tmp_path, mount, mode=mode)
    share.write("a", "b", "c")
    await share.poll()
    recorded = set(share.host.rows)
    mount(after)
    if before == "cifs":
        share.other_inodes()
    (share.path / "c").write_text("overwritten")
    share.write("d")
    assert await share.poll() == ["c", "d"]
    assert len(share.host.rows) == 5, "with c's former version"
    assert len(recorded & set(share.host.rows)) == 1, "and alone is recorded as it was"
    if after == "cifs":
        share.other_inodes()
        assert await share.poll() == []
    else:
        os.utime(share.path / "a", ns=(0, (share.path / "a").stat().st_mtime_ns))
        (share.path / "a").rename(share.path / "away")
        shutil.copy2(share.path / "away", share.path / "a")
        (share.path / "away").unlink()
        assert await share.poll() == ["a"], "from now on inode numbers count"


async def test_a_share_that_is_lost_and_mounted_again_brings_nothing(
    tmp_path: Path, mount: Callable[[str], None]
) -> None:
    """While it is lost, its folder is an empty one of the local disk."""
    mount("cifs")
    share = Share(tmp_path, mount)
    share.write(*(f"{number}" for number in range(30)))
    assert len(await share.poll()) == 30
    trigger = share.trigger()
    for _ in range(2):
        share.path.rename(tmp_path / "away")
        share.path.mkdir()
        mount("ext4")
        await share.host.run(trigger)
        assert [each.check for each in trigger.findings] == ["vanished"]
        share.path.rmdir()
        (tmp_path / "away").rename(share.path)
        mount("cifs")
        await share.host.run(trigger)
        assert [each.check for each in trigger.findings] == ["identity"]
    assert len(share.host.files) == 30


@pytest.mark.parametrize(
    ("identity", "type_", "is_shown"), [("auto", "cifs", True), ("path", "cifs", False), ("auto", "xfs", False)]
)
async def test_people_are_told_what_is_missed_where_inode_numbers_do_not_count(
    tmp_path: Path, mount: Callable[[str], None], identity: str, type_: str, *, is_shown: bool
) -> None:
    mount(type_)
    share = Share(tmp_path, mount, identity=identity)
    found = await share.findings()
    assert len(found) == is_shown
    if is_shown:
        assert found[0].level == "info"
        assert "cifs" in found[0].message
        assert "an overwrite by as many bytes that keeps the time of writing is missed" in found[0].message


async def test_rejected_files_are_retried_under_another_kind(tmp_path: Path, mount: Callable[[str], None]) -> None:
    mount("ext4")
    share = Share(tmp_path, mount)
    name = os.fsdecode(os.fsencode(str(share.path)) + b"/\xff.csv")
    Path(name).write_text("x")
    assert await share.poll() == []
    assert len(share.host.rejected) == 1
    mount("cifs")
    await share.poll()
    share.host.retried = True
    await share.poll()
    assert len(share.host.rejected) == 1, "it is still there, and no event can name it"
