"""What an error of the database tells, and what it must not."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from shared.database import Database
from shared.driver import DatabaseError
from tests.support.postgres import Databases


async def test_an_error_names_the_rule_and_not_the_row(databases: Databases) -> None:
    """Logs and dead letters get the name of the constraint; what somebody wrote into the row stays out."""
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="audit", pool_size=1)
        refused = sa.text("INSERT INTO once VALUES (:pin)")
        async with database.transaction() as connection:
            await connection.execute(sa.text("CREATE TABLE once (pin text CONSTRAINT short CHECK (length(pin) < 3))"))
        with pytest.raises(DatabaseError) as caught:
            async with database.transaction() as connection:
                await connection.execute(refused, {"pin": "no-4929\nDETAIL: x"})
        await database.close()
    told = str(caught.value)
    assert (True, False) == ("short" in told, "no-4929" in told)
