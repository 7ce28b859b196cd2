-- Whose windows were cleared is asked for a whole window, whatever else the audit log has from that time.

-- +goose Up
CREATE INDEX audit_cleared ON pacer.audit (at) WHERE action = 'clear';

-- +goose Down
DROP INDEX pacer.audit_cleared;
