"""Settings of the files pack, read from `FILES_…`; names that begin with `PLACET_` are Placet's own."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_NAMED = re.compile(r"\{(\w+)\}")


class FilesSettings(BaseSettings):
    """Where files are, and how much of them one call may touch."""

    model_config = SettingsConfigDict(env_prefix="FILES_", extra="forbid", frozen=True)

    root: str = Field(
        default="/srv/placet/{tenant}/{agent}",
        description="Folder that the tools never leave; `{tenant}` and `{agent}` may be names of folders in it, which "
        "are made when they are first needed.",
    )
    bytes_max: int = Field(default=5_000_000, ge=1, le=100_000_000, description="Largest file read or written.")
    entries_max: int = Field(default=20_000, ge=1, description="Files and folders that one list or search looks at.")
    hidden: tuple[str, ...] = Field(
        default=(".env*",),
        description="Glob patterns, as a JSON list, of files and folders that no tool lists, reads or writes, in any "
        "case. One with a `/` is of whole paths from the root on, any other one of single names.",
    )
    search_bytes_max: int = Field(default=50_000_000, ge=1, description="Bytes that one search reads.")

    @field_validator("root")
    @classmethod
    def _check_root(cls, root: str) -> str:
        """Let a placeholder stand for a whole name alone, behind a fixed and absolute beginning."""
        names = Path(root).parts
        for name in names:
            if found := _NAMED.findall(name):
                if name != f"{{{found[0]}}}" or found[0] not in {"tenant", "agent"}:
                    raise ValueError(f"{name!r} must be {{tenant}}, {{agent}} or a name without braces")
            elif "{" in name or "}" in name:
                raise ValueError(f"{name!r} must be {{tenant}}, {{agent}} or a name without braces")
        if not Path(root).is_absolute() or names[1:2] == () or names[1].startswith("{"):
            raise ValueError("must be an absolute path that begins with a fixed folder")
        return root
