-- What overflow ladders do with a notification that joins its backlog. This stands between overflow.lua and accept.lua.

-- takes_place reports whether a notification takes the place of one in its backlog with its collapse key, or a newer one
-- came before it.
local function takes_place(n, backlog)
  if n.collapse == '' then return false end
  local earlier = redis.call('HGET', collapse_set(n.category, n.user), n.collapse)
  if earlier and earlier ~= n.id then
    if redis.call('ZSCORE', backlog.key, earlier) then return true end
    if tonumber(redis.call('HGET', partition .. 'n:' .. earlier, F.arrival) or 0) > n.arrival then return true end
  end
  local newest = redis.call('GET', newest_key(n.category, n.user, n.collapse))
  return newest and tonumber(newest) > n.arrival
end

-- judge_waiting judges a notification that is about to join its backlog by the rungs of its ladder that say waiting, see
-- LadderFor. It returns nothing when it joins; else what becomes of it, refuse or the state in which it ends, and the
-- rung. Where another store keeps it, it has been accepted, and nobody can refuse it any more.
local function judge_waiting(agenda, n, retention)
  local backlog = agenda.backlogs[n.category]
  if not backlog or takes_place(n, backlog) then return end
  local off, grows = tonumber(string.match(n.ladder, '^%d+')), 0
  for most, action in string.gmatch(n.ladder, '(%d+) ([%a_]+)') do
    local rung = 'waiting ' .. most .. ' ' .. action
    most = tonumber(most)
    if most > grows and size_of(backlog) >= most then
      local ends, decided = nil, true
      if action == 'keep' or action == 'digest' then
        grows, decided = most, false
        if action == 'digest' and not backlog.bundled then overflow.bundle(agenda, backlog, n.id) end
      elseif action == 'refuse' then
        ends = not GUARDED and 'refuse' or nil
      elseif action == 'drop_new' then
        ends = S.expired
      elseif action == 'drop_oldest' then
        while not ends and size_of(backlog) >= most and overflow.ends > 0 do
          if not overflow.drop_oldest(agenda, backlog, tonumber(n.priority), rung, retention) then ends = S.expired end
        end
      elseif action == 'replace' then
        local comes = n.collapse == '' and
          { id = n.id, priority = tonumber(n.priority), arrival = n.arrival } or nil
        local out
        out, decided = overflow.replace_older(agenda, backlog, off, comes, rung, retention)
        ends = out and S.replaced or nil
      end
      if ends then overflow.note(n.user, n.category, n.id, action) end
      if decided then
        wake_for_expiry(agenda, n.category)
        return ends, rung
      end
    end
  end
end
