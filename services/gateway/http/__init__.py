"""The HTTP app: problem documents for every error, limits around everything, what every route may ask for."""
