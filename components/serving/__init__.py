"""The served model: its SavedModel export, and the Pusher that publishes it."""
