"""Who is connected to whom, and the numbers laid on it."""
