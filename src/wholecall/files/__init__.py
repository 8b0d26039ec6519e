"""Files of SQLite in which several processes keep what must outlive them."""
