"""What an agent may do and what it costs: events, journal, state, record."""
