"""The `placet` command. One file per noun; every command has `--json`, and every error is one line."""
