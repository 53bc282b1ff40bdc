"""What trains the policy of a trial, and what is asked as it is."""
