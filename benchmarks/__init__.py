"""Speed against peers and physical limits, measured in one run, as ratios."""
