"""The file tools: what they do, and that no path, link or file of another kind leads them out of their root."""

from __future__ import annotations

import os
import socket
import string
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.testing import TestedTools, TestedWorkspace, open_tools, tool_context
from placet.tools import CannotApply, ToolError
from placet.tools.files.pack import FILES
from placet.tools.files.paths import folder_parts_of, parts_of
from placet.tools.files.settings import FilesSettings
from placet.tools.files.tree import Draft, Tree
from tests.support.file_roots import CODER, SECRET, names_in


async def code_of(tools: TestedTools, tool: str, /, **arguments: Any) -> str:
    """Return the code with which a tool says no."""
    with pytest.raises(ToolError) as refused:
        await tools.call(tool, **arguments)
    return refused.value.code


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "./a",
        "a//b",
        "a/",
        "",
        ".",
        "..",
        "a\\b",
        "a\x00b",
        "a\nb",
        "caf\u0065\u0301",
        "a\u202eb",
        " a",
        "a ",
        ".placet-1/0",
        ".PLACET-1/0",
        "\ud800",
        "/".join("a" * 40),
        "x" * 256,
    ],
)
def test_what_is_no_clean_path_is_refused(path: str) -> None:
    """It is not tidied up either: rules have read exactly these characters."""
    with pytest.raises(ToolError) as refused:
        parts_of(path)
    assert "bad_path" == refused.value.code


def test_a_clean_path_is_taken_as_it_is() -> None:
    """Dots within names, spaces within names and other scripts are fine; the root is a folder, too."""
    assert ("src", "..a", "b c.py", "ürün.txt") == parts_of("src/..a/b c.py/ürün.txt")
    assert [(), (), ("a",)] == [folder_parts_of(path) for path in ("", ".", "a")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root in it that has one of every way out."""
    made = tmp_path_factory.mktemp("trap")
    (made / "secret.txt").write_text(SECRET)
    (made / "root" / "a" / "b").mkdir(parents=True)
    (made / "empty").mkdir()
    (made / "root" / "link").symlink_to(made / "secret.txt")
    (made / "root" / "out").symlink_to(made)
    (made / "root" / "a" / "out").symlink_to(made / "empty")
    (made / "root" / "hard").hardlink_to(made / "secret.txt")
    os.mkfifo(made / "root" / "pipe")
    return made


NAMES = ["a", "b", "link", "out", "..", ".", "", "A", "a.txt", "hard", "pipe", ".placet-x", "\u0000", "é"]
names = st.sampled_from(
    ["a", "b", "link", "out", "..", ".", "", "A", "a.txt", "hard", "pipe", ".placet-x", "\u0000", "é"]
)


@given(st.lists(names, max_size=6).map("/".join) | st.text(max_size=30))
@example("out/secret.txt")
@example("a/../../secret.txt")
def test_no_path_leads_out_of_the_root(here: Path, path: str) -> None:
    """Whatever is asked for, in a root full of traps: nothing from outside is read, written or removed."""
    tree, draft = Tree(here / "root", 10_000), Draft(Tree(here / "root", 10_000), "t")
    with suppress(ToolError, CannotApply, FileNotFoundError):
        parts = parts_of(path)
        found = tree.read(parts)
        assert found is None or SECRET.encode() not in found.data
        draft.write(0, b"written", 0o644)
        tree.check_place(parts)
        draft.place(0, parts, "0" * 64, None)
    with suppress(ToolError, CannotApply, FileNotFoundError):
        parts = parts_of(path)
        draft.remove(parts, "0" * 64)
    draft.clear()
    assert SECRET == (here / "secret.txt").read_text()
    assert ["empty", "root", "secret.txt"] == sorted(each.name for each in here.iterdir())
    assert [] == list((here / "empty").iterdir())


async def test_links_devices_pipes_and_sockets_are_refused(root: Path, tools: TestedTools) -> None:
    """Neither is read, written over nor deleted; none is listed or searched; a pipe keeps nobody waiting."""
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "hard.txt").hardlink_to(root.parent / "secret.txt")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    with suppress(PermissionError):
        os.mknod(root / "null", 0o600 | 0o020000, os.makedev(1, 3))
    there = [path for path in ("link.txt", "hard.txt", "pipe", "socket", "null") if path in names_in(root)]
    for path in [*there, "folder/secret.txt"]:
        assert "refused_path" == await code_of(tools, "read_file", path=path)
        assert "refused_path" == await code_of(tools, "write_file", path=path, content="x")
        assert "refused_path" == await code_of(tools, "delete_file", path=path)
        assert "refused_path" == await code_of(tools, "move_file", path=path, to="b.txt")
    assert [] == (await tools.call("list_files", depth=5)).data["files"]
    assert [] == (await tools.call("search_files", text="nobody")).data["hits"]
    assert SECRET == (root.parent / "secret.txt").read_text()


async def test_names_that_differ_in_case_alone_are_refused(root: Path, tools: TestedTools) -> None:
    """On some file systems they are one file; a rule that forbids the one must not be walked around by the other."""
    (root / "Secret.txt").write_text("x")
    (root / "docs").mkdir()
    assert "refused_path" == await code_of(tools, "write_file", path="secret.TXT", content="y")
    assert "refused_path" == await code_of(tools, "write_file", path="DOCS/a.txt", content="y")
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="new.txt", content="x")
    with pytest.raises(ToolError, match=r"differs from .new\.txt. in case"):
        await tools.stage("create_file", workspace, path="NEW.txt", content="x")


async def test_folders_that_wait_do_not_differ_in_case_alone(tools: TestedTools) -> None:
    """On a disk that ignores case they would be one folder, and one file of the two would be lost."""
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="src/deep/a.txt", content="a")
    for path in ("SRC/deep/b.txt", "src/Deep/a.txt"):
        with pytest.raises(ToolError, match=r"differs from '(src|src/deep)' in case"):
            await tools.stage("create_file", workspace, path=path, content="b")
    await tools.stage("create_file", workspace, path="src/deep/b.txt", content="b")


@pytest.mark.parametrize(
    ("keys", "clashing"),
    [
        (["a", "b", "a.b/c"], []),
        (["p", "p/q", "r"], ["p", "p/q"]),
        (["x/Twin.md", "x/twin.md", "y/twin.md"], ["x/Twin.md", "x/twin.md"]),
        (["Src/a", "src/b", "c"], ["Src/a", "src/b"]),
    ],
)
def test_paths_that_cannot_stand_together_are_told(keys: list[str], clashing: list[str]) -> None:
    """One is a folder of another, or they differ in case alone, in a name or in a folder above."""
    assert clashing == FILES.clashes(keys)


async def test_folders_below_the_depth_are_named(root: Path, tools: TestedTools) -> None:
    """Those that stand there and those that only wait, each once; hidden ones and links are not."""
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "a.txt").write_text("a")
    (root / "src" / "b.txt").write_text("b")
    (root / ".env.d").mkdir()
    (root / "link").symlink_to(root.parent)
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="new/deep/c.txt", content="c")
    await tools.stage("create_file", workspace, path="src/deep/d.txt", content="d")
    context = tool_context(workspace=workspace)
    listed = [await tools.call("list_files", context=context, depth=depth) for depth in (0, 1, 2)]
    assert [["new", "src"], ["new/deep", "src/deep"], []] == [each.data["folders"] for each in listed]
    assert [0, 1, 4] == [len(each.data["files"]) for each in listed]
    inner = await tools.call("list_files", context=context, folder="src")
    assert (["src/b.txt"], ["src/deep"]) == ([each["path"] for each in inner.data["files"]], inner.data["folders"])


async def test_a_name_that_is_no_text_is_passed_over(root: Path, tools: TestedTools) -> None:
    """No path can mean it, and what stands beside it is listed and found."""
    (root / "plain.txt").write_text("needle")
    os.close(os.open(os.fsencode(root) + b"/caf\xe9.txt", os.O_WRONLY | os.O_CREAT))
    listed = await tools.call("list_files")
    found = await tools.call("search_files", text="needle")
    assert ["plain.txt"] == [each["path"] for each in listed.data["files"]]
    assert ["plain.txt"] == [each["path"] for each in found.data["hits"]]


async def test_a_link_swapped_in_while_a_file_is_read_leads_nowhere(root: Path) -> None:
    """Thousands of swaps of a folder for a link out of the root: a read is the inner file, none, or refused."""
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "at").symlink_to(root.parent)
            (root / "at").unlink()
            (root / "real").rename(root / "at")
            (root / "at").rename(root / "real")

    swapping = threading.Thread(target=swap)
    swapping.start()
    tree, seen = Tree(root, 1_000), set()
    for _ in range(3_000):
        with suppress(ToolError):
            found = tree.read(("at", "secret.txt"))
            seen.add(found and found.data)
    stop.set()
    swapping.join()
    assert seen <= {None, b"inside"}


async def test_a_file_is_written_edited_moved_and_deleted_at_once_where_a_rule_allows_it(
    root: Path, tools: TestedTools
) -> None:
    """Without a workspace the same tools act on the spot, and leave nothing of their own behind."""
    await tools.call("create_file", path="a/b.sh", content="echo one\n", executable=True)
    await tools.call("edit_file", path="a/b.sh", old="one", new="two")
    await tools.call("move_file", path="a/b.sh", to="c.sh")
    assert ("echo two\n", 0o755) == ((root / "c.sh").read_text(), (root / "c.sh").stat().st_mode & 0o777)
    await tools.call("delete_file", path="c.sh")
    assert ["a"] == names_in(root)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("create_file", {"path": "a.txt", "content": "x"}, "exists"),
        ("write_file", {"path": "a.txt", "content": "one one\n"}, "no_change"),
        ("write_file", {"path": "folder", "content": "x"}, "refused_path"),
        ("write_file", {"path": "a.txt/b", "content": "x"}, "refused_path"),
        ("write_file", {"path": "b", "content": "%", "encoding": "base64"}, "bad_content"),
        ("edit_file", {"path": "a.txt", "old": "two", "new": "x"}, "not_found"),
        ("edit_file", {"path": "a.txt", "old": "one", "new": "x"}, "ambiguous"),
        ("edit_file", {"path": "b.bin", "old": "one", "new": "x"}, "binary"),
        ("move_file", {"path": "a.txt", "to": "b.bin"}, "exists"),
        ("delete_file", {"path": "none"}, "not_found"),
        ("read_file", {"path": "none"}, "not_found"),
        ("list_files", {"folder": "none"}, "not_found"),
        ("read_file", {"path": "large"}, "too_large"),
    ],
)
async def test_a_tool_says_why_it_does_nothing(
    root: Path, tools: TestedTools, tool: str, arguments: dict[str, Any], code: str
) -> None:
    """Each no has a word for programs."""
    (root / "a.txt").write_text("one one\n")
    (root / "b.bin").write_bytes(b"\xff\xfe")
    (root / "folder").mkdir()
    with (root / "large").open("wb") as file:
        file.truncate(FilesSettings().bytes_max + 1)
    assert code == await code_of(tools, tool, **arguments)


async def test_an_edit_that_would_make_too_much_makes_nothing(root: Path, tools: TestedTools) -> None:
    """Its size is known before it is made: two hundred letters, each to become a megabyte, take no memory at all."""
    (root / "a.txt").write_text("ü" * 200)
    tracemalloc.start()
    try:
        code = await code_of(tools, "edit_file", path="a.txt", old="ü", new="é" * 500_000, every=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ("too_large", True) == (code, most < 20_000_000)


@pytest.mark.parametrize(("room", "done"), [(20, True), (19, False)])
async def test_an_edit_is_measured_in_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, room: int, done: bool
) -> None:
    """Five letters of one byte that become as many of four fill twenty bytes, and need them."""
    (root / "a.txt").write_text("aaaaa")
    monkeypatch.setenv("FILES_BYTES_MAX", str(room))
    async with open_tools(CODER) as tools:
        edit = tools.call("edit_file", path="a.txt", old="a", new="🌱", every=True)
        if done:
            await edit
        else:
            with pytest.raises(ToolError):
                await edit
    assert ("🌱" if done else "a") * 5 == (root / "a.txt").read_text()


async def test_what_waits_builds_on_what_waits(root: Path, tools: TestedTools) -> None:
    """Staged calls see each other, the folder sees none of them until the commit."""
    (root / "a.txt").write_text("one\n")
    workspace = TestedWorkspace()
    await tools.stage("edit_file", workspace, path="a.txt", old="one", new="two")
    (told,) = await tools.stage("edit_file", workspace, path="a.txt", old="two", new="three")
    assert "Change a.txt (+1 -1)" == told.summary
    read = await tools.call("read_file", path="a.txt", context=tool_context(workspace=workspace))
    assert ("three\n", "one\n") == (read.data["text"], (root / "a.txt").read_text())
    assert [] == await tools.commit("edit_file", workspace)
    assert "three\n" == (root / "a.txt").read_text()


async def test_a_commit_finds_what_others_have_changed(root: Path, tools: TestedTools) -> None:
    """The key is named, and nothing is made."""
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="a.txt", content="x")
    await tools.stage("create_file", workspace, path="b.txt", content="x")
    (root / "a.txt").write_text("y")
    assert ["a.txt"] == await tools.commit("create_file", workspace)
    assert ["a.txt"] == names_in(root)


@pytest.mark.parametrize("root", ["relative", "/{tenant}", "/srv/{other}", "/srv/x{tenant}", "/srv/{tenant", "/"])
def test_a_root_begins_with_a_fixed_folder(root: str) -> None:
    """A placeholder is a whole name, and never the first one."""
    with pytest.raises(ValueError, match="must be"):
        FilesSettings(root=root)


async def test_each_tenant_and_agent_has_a_root_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders are made when they are first needed, and a name that is none gets no folder."""
    monkeypatch.setenv("FILES_ROOT", str(tmp_path / "{tenant}" / "{agent}"))
    async with open_tools(CODER) as tools:
        for tenant, agent in (("acme", "coder"), ("umbrella", "coder"), ("acme", "writer")):
            context = tool_context(tenant=tenant, agent=agent)
            await tools.call("write_file", path="who.txt", content=f"{tenant} {agent}", context=context)
        with pytest.raises(ToolError) as refused:
            await tools.call("read_file", path="who.txt", context=tool_context(agent=".."))
    assert "no_root" == refused.value.code
    assert "umbrella coder" == (tmp_path / "umbrella" / "coder" / "who.txt").read_text()
    assert ["acme", "umbrella"] == names_in(tmp_path)


def test_every_character_of_a_card_can_be_seen() -> None:
    """No control or format character is part of a path."""
    unseen = [chr(code) for code in (*range(32), 0x7F, 0x200B, 0x202A, 0x2066, 0xFEFF)]
    for each in unseen:
        with pytest.raises(ToolError):
            parts_of(f"a{each}b")
    assert parts_of(string.ascii_letters)


@pytest.mark.parametrize("name", [".env", ".ENV", "sub/.Env", "sub/.env.local", ".env.d/key", "sub/\uff0eenv"])
async def test_no_tool_sees_what_is_hidden(root: Path, tools: TestedTools, name: str) -> None:
    """Neither by its name nor in a list or search of the folder, in any case; it stays as it is."""
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(SECRET)
    (root / "plain.txt").write_text("nothing")
    path = {"path": name}
    codes = [
        await code_of(tools, "read_file", **path),
        await code_of(tools, "write_file", **path, content="mine"),
        await code_of(tools, "create_file", **path, content="mine"),
        await code_of(tools, "edit_file", **path, old="what", new="who"),
        await code_of(tools, "move_file", **path, to="b.txt"),
        await code_of(tools, "move_file", path="plain.txt", to=name),
        await code_of(tools, "delete_file", **path),
    ]
    assert ["refused_path"] * 7 == codes
    assert [] == (await tools.call("search_files", text="nobody")).data["hits"]
    assert ["plain.txt"] == [each["path"] for each in (await tools.call("list_files", depth=3)).data["files"]]
    assert SECRET == (root / name).read_text()


async def test_what_waited_before_it_was_hidden_is_not_shown(root: Path, tools: TestedTools, monkeypatch: Any) -> None:
    """Operators who hide a file hide what agents have staged of it too, and it is not committed."""
    workspace = TestedWorkspace()
    await tools.stage("write_file", workspace, path="keys/a.pem", content=SECRET)
    monkeypatch.setenv("FILES_HIDDEN", '["keys/*.PEM"]')
    async with open_tools(CODER) as hiding:
        context = tool_context(workspace=workspace)
        found = await hiding.call("search_files", context=context, text="nobody")
        listed = await hiding.call("list_files", context=context, depth=3)
        with pytest.raises(ToolError) as refused:
            await hiding.call("read_file", context=context, path="keys/a.pem")
        assert ([], [], "refused_path") == (found.data["hits"], listed.data["files"], refused.value.code)
        assert ["keys/a.pem"] == await hiding.commit("write_file", workspace)
    assert not (root / "keys").exists()
