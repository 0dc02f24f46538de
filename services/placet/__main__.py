"""Run the command: `python -m services.placet`."""

from __future__ import annotations

from services.placet.cli.main import main

if __name__ == "__main__":
    main()
