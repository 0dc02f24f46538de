"""RabbitMQ on the distributed footing: its topology, its users and what each of them may do."""
