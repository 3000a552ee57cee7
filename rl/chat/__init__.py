"""Token-exact dialogues for any chat template: its pieces, and a seat's growing view."""
