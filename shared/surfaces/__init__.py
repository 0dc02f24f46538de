"""What people see, wherever they decide: cards, their texts in every language, Slack's building blocks."""
