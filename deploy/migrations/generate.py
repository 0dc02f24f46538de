"""Write the next migration from the tables: `python -m placet.deploy.migrations.generate pre "add votes"`.

Needs PLACET_DATABASE_URL of an empty database, which is migrated first. Read what it wrote before committing it.
"""

from __future__ import annotations

import re
import sys

import sqlalchemy as sa
from alembic import command

from placet.deploy.migrations import configuration, newest
from placet.runtime.database import async_url
from placet.runtime.settings import Settings


def main(phase: str, what: str) -> None:
    """Compare the migrated database with the tables and write the difference."""
    url = Settings().database_url.get_secret_value()
    number = int(newest()[:4]) + 1
    slug = re.sub(r"[^a-z0-9]+", "_", what.lower()).strip("_")
    engine = sa.create_engine(async_url(url))
    with engine.connect() as connection:
        config = configuration()
        config.set_main_option("file_template", "%%(rev)s")
        config.attributes["connection"] = connection
        # Without the views: they may read what the next migration adds.
        command.upgrade(config, "head")
        command.revision(config, message=what, rev_id=f"{number:04}_{phase}_{slug}", autogenerate=True)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"pre", "post"}:  # noqa: PLR2004
        raise SystemExit('usage: python -m placet.deploy.migrations.generate pre|post "what changes"')
    main(sys.argv[1], sys.argv[2])
