"""Freeze the messages' JSON Schemas: `python -m tests.contract.freeze_schemas`, after thinking about compatibility."""

from __future__ import annotations

import json
from pathlib import Path

from placet.contracts.topology import MESSAGES

SCHEMAS = Path(__file__).parent / "schemas"


def main() -> None:
    """Write the schema of every message."""
    SCHEMAS.mkdir(exist_ok=True)
    for type_name, cls in MESSAGES.items():
        schema = cls.model_json_schema(mode="serialization")
        (SCHEMAS / f"{type_name}.json").write_text(json.dumps(schema, indent=1) + "\n")


if __name__ == "__main__":
    main()
