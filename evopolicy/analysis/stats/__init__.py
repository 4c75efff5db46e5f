"""Arrays in, arrays out: ties, variance components, intervals, resampling, ranks and
differences."""
