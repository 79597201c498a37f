"""Tables as users have them, and batches of rank-1 tensors made of them."""
