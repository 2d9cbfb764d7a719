"""What people see: tables, the screen of a run, text for settings and figures."""
