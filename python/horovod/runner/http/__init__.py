"""The rendezvous of ranks that another launcher starts: not there yet."""
