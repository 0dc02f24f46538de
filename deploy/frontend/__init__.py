"""The browser libraries of Placet's own pages: which versions, and how they get here."""
