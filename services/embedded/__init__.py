"""The embedded footing: PostgreSQL from a wheel and every service in one process, behind `placet up`."""
