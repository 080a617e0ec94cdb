"""Who may run jobs: what names mean, and whom the settings name first."""
