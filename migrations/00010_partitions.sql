-- The parts of the queue are called partitions.

-- +goose Up
ALTER TABLE pacer.lanes RENAME TO partitions;
ALTER TABLE pacer.partitions RENAME COLUMN lane TO partition;
ALTER INDEX pacer.lanes_pkey RENAME TO partitions_pkey;

ALTER TABLE pacer.pauses DROP CONSTRAINT pauses_kind_check;
UPDATE pacer.pauses SET kind = 'partition' WHERE kind = 'lane';
ALTER TABLE pacer.pauses ADD CONSTRAINT pauses_kind_check CHECK (kind IN ('channel', 'category', 'partition'));

-- +goose Down
ALTER TABLE pacer.pauses DROP CONSTRAINT pauses_kind_check;
UPDATE pacer.pauses SET kind = 'lane' WHERE kind = 'partition';
ALTER TABLE pacer.pauses ADD CONSTRAINT pauses_kind_check CHECK (kind IN ('channel', 'category', 'lane'));

ALTER INDEX pacer.partitions_pkey RENAME TO lanes_pkey;
ALTER TABLE pacer.partitions RENAME COLUMN partition TO lane;
ALTER TABLE pacer.partitions RENAME TO lanes;
