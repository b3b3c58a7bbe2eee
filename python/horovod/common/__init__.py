"""What front ends share."""
