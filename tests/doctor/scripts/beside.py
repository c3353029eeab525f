"""Find what lies beside a script."""
