"""The paper: its methods, its published figures, and what is measured against them."""
