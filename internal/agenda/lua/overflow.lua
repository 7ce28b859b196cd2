-- The functions of overflow ladders, which say what becomes of more than a category's limits let go. They stand after
-- notification.lua. What a rung ends has the reason "overflow", and as detail the rung: "waiting 5 drop_oldest", or
-- "wait 3600000000 drop_new" in µs. All of them are in one table: a script has room for 200 locals.
local overflow = {}
do
  -- How many the ladders of one script may still end, and how many are looked at for one rung. The player has the same
  -- bounds.
  overflow.ends = 100
  local OVERFLOW_READ = 1000

  -- overflow.note notes for the caller what a rung did to a notification: it stands among the deferrals, with the
  -- notification for how many, and what was done for the rule: "unbounded" where many wait and no ladder is. Of what was
  -- accepted it tells.
  function overflow.note(user, category, what, action)
    local i = #deferrals
    deferrals[i + 1], deferrals[i + 2], deferrals[i + 3], deferrals[i + 4] = user, category, what, action
    if what ~= '' and action ~= 'refuse' and events.wants(S.overflow) then
      events.tell(S.overflow, digits(now), what, user, category, '0', '', action)
    end
  end

  -- overflow.bundle has a backlog go as digests until it is empty, because of a notification.
  function overflow.bundle(agenda, backlog, id)
    backlog.bundled = true
    mark_changed(agenda, backlog)
    overflow.note(agenda.user, backlog.category, id, 'digest')
  end

  -- overflow.end_one ends one that waits, and what it carries.
  function overflow.end_one(agenda, id, state, rung, retention)
    overflow.ends = overflow.ends - 1
    local category, frozen = remove_waiting(agenda, id)
    finish(id, category, state, 'overflow', retention, rung)
    if frozen then digests.end_items(id, category, state, retention) end
    overflow.note(agenda.user, category, id, string.match(rung, '%S+$'))
  end

  -- overflow.drop_oldest ends the oldest of the least urgent of a backlog, unless that is more urgent than a priority.
  -- Then it returns false.
  function overflow.drop_oldest(agenda, backlog, priority, rung, retention)
    local last = redis.call('ZRANGE', backlog.key, '-1', '-1', 'WITHSCORES')[2]
    local least = last and math.floor(tonumber(last) / BAND) + 1
    if not least or least < priority then return false end
    local id = redis.call('ZRANGEBYSCORE', backlog.key, digits((least - 1) * BAND), '+inf', 'LIMIT', '0', '1')[1]
    overflow.end_one(agenda, id, S.expired, rung, retention)
    return true
  end

  -- keyless_of lists what a ladder holds for in a backlog and has no collapse key, nor carries a frozen digest, in
  -- order, after `newest`: the one that comes, if it has none either. Its second result is which of all came last.
  -- `off` is the least urgent priority for which the ladder does not hold.
  local function keyless_of(backlog, off, newest)
    local keyless = { newest }
    for _, id in ipairs(redis.call('ZRANGE', backlog.key, '0', digits(OVERFLOW_READ - 1))) do
      local collapse, priority, arrival, frozen = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.collapse,
        F.priority, F.arrival, F.frozen))
      if arrival and not collapse and not frozen and tonumber(priority) > off then
        local one = { id = id, priority = tonumber(priority), arrival = tonumber(arrival) }
        keyless[#keyless + 1] = one
        if not newest or one.arrival > newest.arrival then newest = one end
      end
    end
    return keyless, newest
  end

  -- overflow.replace_older ends those without a collapse key that are not the newest of them, nor more urgent. It
  -- returns whether the one that comes (nil: none) has to end so, and whether anything ends.
  function overflow.replace_older(agenda, backlog, off, comes, rung, retention)
    local keyless, newest = keyless_of(backlog, off, comes)
    local out, decided = false, false
    for _, one in ipairs(keyless) do
      if one ~= newest and one.priority >= newest.priority and overflow.ends > 0 then
        decided = true
        if one == comes then
          out = true
        else
          overflow.end_one(agenda, one.id, S.replaced, rung, retention)
        end
      end
    end
    return out, decided
  end
end
