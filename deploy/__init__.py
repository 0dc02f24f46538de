"""How Placet is put on machines: migrations, images, broker and database rights."""
