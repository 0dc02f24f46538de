"""What two services must agree on: messages, where they travel, signatures, permits, the form of a call."""
