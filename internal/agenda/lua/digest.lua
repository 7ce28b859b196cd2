-- The functions of digests. A digest is no object: whatever stands first in its backlog takes others of its group along,
-- as one admission and one lease. It is their carrier, they are its items; digest:<carrier> lists them, in their order.
-- They stand after notification.lua, in a table: a script may have 200 local names.
local digests = {}
do
  local function digest_key(carrier) return partition .. 'digest:' .. carrier end

  -- join has notifications that were taken out of their backlog go with a carrier, which was granted on a basis.
  function digests.join(carrier, items, basis)
    for _, id in ipairs(items) do
      local key = partition .. 'n:' .. id
      redis.call('HSET', key, F.state, S.sending, F.digest, carrier, F.basis, basis)
      if redis.call('HEXISTS', key, F.generation) == 1 then -- a late result of its own attempt is void by now
        redis.call('HINCRBY', key, F.generation, '1')
        redis.call('HINCRBY', key, F.returned, '1')
      end
    end
    redis.call('HSET', partition .. 'n:' .. carrier, F.digest, carrier)
    redis.call('RPUSH', digest_key(carrier), unpack(items))
    count('joined', #items)
  end

  -- items_of returns the items of a carrier.
  function digests.items_of(carrier) return redis.call('LRANGE', digest_key(carrier), '0', '-1') end

  -- with_items returns a notification as a reply has it: with the items that it carries behind it, parted by spaces, and
  -- "+" before those of a digest that may have reached somebody.
  function digests.with_items(id)
    local items = digests.items_of(id)
    if #items == 0 then return id end
    return id .. (digests.is_frozen(id) and ' + ' or ' ') .. table.concat(items, ' ')
  end

  -- is_frozen reports whether a notification carries a digest that may have reached somebody.
  function digests.is_frozen(id) return redis.call('HGET', partition .. 'n:' .. id, F.frozen) == '1' end

  -- freeze keeps what may have reached somebody as it is: it comes again with the same content. Nothing that only
  -- concerns its carrier ends a digest; what went alone goes alone from now on. It returns whether there is a digest.
  function digests.freeze(carrier)
    local key = partition .. 'n:' .. carrier
    redis.call('HDEL', key, F.group)
    if redis.call('EXISTS', digest_key(carrier)) == 0 then return false end
    redis.call('HSET', key, F.frozen, '1')
    redis.call('HDEL', key, F.expires, F.collapse)
    return true
  end

  -- dissolve takes the items out of a digest, and returns them.
  function digests.dissolve(carrier)
    local items = digests.items_of(carrier)
    if #items == 0 then return items end
    redis.call('DEL', digest_key(carrier))
    redis.call('HDEL', partition .. 'n:' .. carrier, F.digest, F.frozen)
    for _, id in ipairs(items) do redis.call('HDEL', partition .. 'n:' .. id, F.digest) end
    count('joined', -#items)
    return items
  end

  -- part takes one item out of a digest; false when it is not in it.
  function digests.part(carrier, item)
    if redis.call('LREM', digest_key(carrier), '1', item) == 0 then return false end
    redis.call('HDEL', partition .. 'n:' .. item, F.digest)
    count('joined', -1)
    return true
  end

  -- end_items ends the items of a digest as it ended. Whatever admission an item had before is not what it went by.
  function digests.end_items(carrier, category, state, retention)
    local items = digests.items_of(carrier)
    if #items == 0 then return end
    redis.call('DEL', digest_key(carrier))
    redis.call('HDEL', partition .. 'n:' .. carrier, F.frozen)
    for _, id in ipairs(items) do
      if not GUARDED then redis.call('HSET', partition .. 'n:' .. id, F.refunded, '1') end
      finish(id, category, state, 'digest', retention)
    end
    count('joined', -#items)
  end
end
