-- Who acknowledged an alert: a user's e-mail or an API key's name, as it was then.
ALTER TABLE fired_alerts ADD COLUMN acknowledged_by text;
