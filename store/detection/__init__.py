"""Where watchers stand, what they detected, and the transaction that stores both."""
