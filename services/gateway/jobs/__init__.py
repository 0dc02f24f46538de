"""Jobs: asked for, followed and cancelled over HTTP; the service `jobs` does them."""
