"""What all tests share."""

import torch

# Tests run two processes on two cores; more threads in each would only wait for one another.
torch.set_num_threads(1)
