"""The served model: its SavedModel export, the Pusher that publishes it, and the live pointer."""
