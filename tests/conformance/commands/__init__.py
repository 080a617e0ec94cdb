"""What people type: each case drives the real kubectl, as an async function `test_…(kubectl)`."""
