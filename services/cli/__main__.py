"""Run the command: `python -m placet.cli`."""

from __future__ import annotations

from placet.cli.main import main

if __name__ == "__main__":
    main()
