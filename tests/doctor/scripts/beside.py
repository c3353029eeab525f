"""What lies beside a script is found."""
